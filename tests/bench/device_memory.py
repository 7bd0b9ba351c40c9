"""The most device memory that was in use while a program ran, asked of NVML every 2 ms: the same measure for every allocator.

Used by real_programs.py. Counts the whole device, the context included; the machine must be idle otherwise. Where there is
no NVML the peak is None.
"""
import ctypes
import threading


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Watch:
    """with Watch() as watch: run; then watch.peak is in MiB above what was in use before."""

    def __init__(self):
        self.peak, self.device = None, ctypes.c_void_p()
        try:
            self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
            if self.nvml.nvmlInit_v2() or self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device)):
                self.nvml = None
        except OSError:
            self.nvml = None

    def used(self):
        memory = Memory()
        return memory.used if self.nvml.nvmlDeviceGetMemoryInfo(self.device, ctypes.byref(memory)) == 0 else 0

    def look(self, before):
        most = before
        while not self.ended.wait(0.002):
            most = max(most, self.used())
        self.peak = (most - before) / 2**20

    def __enter__(self):
        if self.nvml:
            self.ended = threading.Event()
            self.thread = threading.Thread(target=self.look, args=(self.used(),))
            self.thread.start()
        return self

    def __exit__(self, *_):
        if self.nvml:
            self.ended.set()
            self.thread.join()

"""A folder of files that are another folder's, through FUSE: while the file STOP exists, no write comes back.

stalling_disk.py FOLDER BEHIND STOP; ends when FOLDER is unmounted. For recording_proofs.py. Needs the module fuse (PyPI's fusepy) or fusepy (Debian's).
"""
import os
import sys
import time

try:
    import fusepy as fuse
except ModuleNotFoundError:
    import fuse

FIELDS = ("st_atime", "st_ctime", "st_gid", "st_mode", "st_mtime", "st_nlink", "st_size", "st_uid")


class StallingDisk(fuse.Operations):
    def __init__(self, behind, stop):
        self.behind, self.stop = behind, stop

    def __call__(self, name, path, *arguments):
        try:
            return super().__call__(name, self.behind + path, *arguments)
        except OSError as error:
            raise fuse.FuseOSError(error.errno) from error

    def getattr(self, path, fh=None):
        there = os.lstat(path)
        return {field: getattr(there, field) for field in FIELDS}

    def readdir(self, path, fh):
        return [".", "..", *os.listdir(path)]

    def create(self, path, mode, fi=None):
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)

    def open(self, path, flags):
        return os.open(path, os.O_RDWR)

    def read(self, path, size, offset, fh):
        return os.pread(fh, size, offset)

    def write(self, path, data, offset, fh):
        while os.path.exists(self.stop):
            time.sleep(0.02)
        return os.pwrite(fh, data, offset)

    def truncate(self, path, length, fh=None):
        os.truncate(path, length)

    def unlink(self, path):
        os.unlink(path)

    def flush(self, path, fh):
        return 0

    def release(self, path, fh):
        os.close(fh)


fuse.FUSE(StallingDisk(sys.argv[2], sys.argv[3]), sys.argv[1], foreground=True, nothreads=False, big_writes=True)

"""rmm.mr beside gpumem: RMM's own pool for this program's arrays, gpumem below it and for everything else. Needs the package
rmm-cu13; runs without gpumem too."""
import gpumem
import rmm

MIB = 1 << 20
rmm.mr.set_current_device_resource(rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=64 * MIB))
buffers = [rmm.DeviceBuffer(size=MIB) for _ in range(10)]
held = sum(buffer.size for buffer in buffers)
print(f"RMM handed out {held // MIB} MiB")
if gpumem.is_loaded():
    now = gpumem.get_statistics()
    print(f"gpumem served {now.current_bytes // MIB} MiB in {now.current_count} blocks: RMM's pool")

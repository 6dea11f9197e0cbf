/* A minimal libnvidia-ml.so.1, for drivers in states that no machine at hand has.
   NVML_FAULT names the fault; without it, a healthy host with two GPUs. Signatures: NVML API reference. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, NOT_SUPPORTED = 3, NO_PERMISSION = 4, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15, MISMATCH = 18 };

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char address[32];
} pci;

typedef struct {
    unsigned long long total, free, used;
} memory;

static int fault(const char *name)
{
    const char *wanted = getenv("NVML_FAULT");
    return wanted && !strcmp(wanted, name);
}

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    if (fault("not-loaded"))
        return DRIVER_NOT_LOADED;
    return fault("mismatch") ? MISMATCH : OK;
}

int nvmlShutdown(void)
{
    if (fault("tell-shutdown"))
        puts("shut down");
    return OK;
}

int nvmlSystemGetDriverVersion(char *text, unsigned size)
{
    snprintf(text, size, "580.95.05");
    return OK;
}

#ifndef OLD
int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    *version = 13000;
    return OK;
}
#endif

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = fault("none") ? 0 : 2;
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    if (fault("lost") || fault("tell-shutdown"))
        return GPU_IS_LOST;
    if (fault("hidden") && index == 0)
        return NO_PERMISSION;
    *device = (void *)(long)(index + 1);
    return OK;
}

int nvmlDeviceGetName(void *device, char *text, unsigned size)
{
    if (fault("no-text"))
        snprintf(text, size, "\xff\xfe");
    else
        snprintf(text, size, device == (void *)1 ? "NVIDIA H100 80GB HBM3" : "NVIDIA GB10");
    return OK;
}

int nvmlDeviceGetUUID(void *device, char *text, unsigned size)
{
    snprintf(text, size, "GPU-00000000-0000-0000-0000-00000000000%ld", (long)device);
    return OK;
}

int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor)
{
    *major = device == (void *)1 ? 9 : 12;
    *minor = device == (void *)1 ? 0 : 1;
    return OK;
}

int nvmlDeviceGetMemoryInfo(void *device, memory *found)
{
    if (device != (void *)1)
        return NOT_SUPPORTED;
    found->total = 85520809984ULL;
    return OK;
}

int nvmlDeviceGetPciInfo_v3(void *device, pci *found)
{
    memset(found, 0, sizeof *found);
    snprintf(found->address, sizeof found->address, "0000000%c:3B:00.0", device == (void *)1 ? '0' : 'F');
    return OK;
}

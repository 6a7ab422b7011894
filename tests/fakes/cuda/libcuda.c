/* Test double of libcuda.so.1: the part of the driver API that says which devices there are, in which order.
 *
 * Environment, read at every call:
 *   RLTUI_FAKE_CUDA       UUIDs as 32 hexadecimal digits, separated by commas, fastest first
 *   RLTUI_FAKE_CUDA_INIT  CUresult of cuInit; `hang` for a driver that never answers
 *   CUDA_VISIBLE_DEVICES  set: no devices at all;  CUDA_DEVICE_ORDER=PCI_BUS_ID: the last one first
 *
 * Built with -DOLD, it is a driver before CUDA 11.4, which has no cuDeviceGetUuid_v2. Layouts and codes are
 * NVIDIA's, from cuda.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_VALUE = 1, INVALID_DEVICE = 101 };

typedef struct { char bytes[16]; } Uuid;

EXPORT int cuInit(unsigned flags) {
    const char *code = getenv("RLTUI_FAKE_CUDA_INIT");
    if (flags) return INVALID_VALUE;
    if (code && !strcmp(code, "hang")) pause();
    return code ? atoi(code) : SUCCESS;
}

EXPORT int cuDeviceGetCount(int *count) {
    const char *uuids = getenv("RLTUI_FAKE_CUDA");
    *count = uuids && *uuids && !getenv("CUDA_VISIBLE_DEVICES") ? ((int)strlen(uuids) + 1) / 33 : 0;
    return SUCCESS;
}

static int uuid_of(Uuid *uuid, int device) {
    const char *order = getenv("CUDA_DEVICE_ORDER");
    int count;
    cuDeviceGetCount(&count);
    if (device < 0 || device >= count) return INVALID_DEVICE;
    if (order && !strcmp(order, "PCI_BUS_ID")) device = count - 1 - device;
    const char *text = getenv("RLTUI_FAKE_CUDA") + 33 * device;
    for (int i = 0; i < 16; i++) {
        unsigned byte;
        if (sscanf(text + 2 * i, "%2x", &byte) != 1) return INVALID_VALUE;
        uuid->bytes[i] = (char)byte;
    }
    return SUCCESS;
}

EXPORT int cuDeviceGetUuid(Uuid *uuid, int device) {
    return uuid_of(uuid, device);
}

#ifndef OLD
EXPORT int cuDeviceGetUuid_v2(Uuid *uuid, int device) {
    return uuid_of(uuid, device);
}
#endif

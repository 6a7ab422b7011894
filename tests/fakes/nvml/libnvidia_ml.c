/* Test double of libnvidia-ml.so.1: the part of NVML's ABI that rltui calls, driven by a text file.
 *
 * The environment variable RLTUI_FAKE_NVML names the scenario file; it is read again whenever it changes, so a test
 * can change the machine while a reader runs. A line is `key value…`, `#` starts a comment:
 *
 *   driver 570.124.06      count 8               init_err 18         (NVML return code of nvmlInit)
 *   0.total 25769803776    *.reserved 268435456  0.used 1073741824   (bytes; free = total - reserved - used)
 *   0.name NVIDIA L4       0.uuid GPU-…          0.util 73   0.power 250000 (mW)   0.temp 61 (°C)
 *   0.compute 4242 1048576                       0.graphics 4242 na  (pid, bytes; repeat the line per process)
 *   *.memory_v2_err 13     0.all_err 15                              (NVML return code of one call, or of all)
 *
 * `*.` stands for every device; a line for one device wins over it. The `_err` names are those given to `refused`.
 * Layouts and codes are NVIDIA's, from nvml.h. Not thread-safe.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define EXPORT __attribute__((visibility("default")))
#define LINES 1024
#define DEVICES 64
#define GIB (1024ull * 1024 * 1024)
#define NOT_AVAILABLE 0xFFFFFFFFFFFFFFFFull

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9,
       VERSION_MISMATCH = 25 };

typedef struct { int index; } Device;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned version; int sensor; int temperature; } Temperature;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } Process;
typedef struct { char key[48]; char value[128]; } Line;

static Line lines[LINES];
static int line_count;
static struct stat read_as;
static int init_count;
static Device devices[DEVICES];

static void parse(FILE *file) {
    char text[256];
    line_count = 0;
    while (line_count < LINES && fgets(text, sizeof text, file)) {
        Line *line = &lines[line_count];
        text[strcspn(text, "#\n")] = 0;
        line->value[0] = 0;
        if (sscanf(text, "%47s %127[^\n]", line->key, line->value) >= 1) line_count++;
    }
}

/* Reads the scenario again if the file is another one or has changed. Returns whether there is one. */
static int scenario(void) {
    const char *path = getenv("RLTUI_FAKE_NVML");
    struct stat now;
    if (!path || stat(path, &now)) return 0;
    if (now.st_ino == read_as.st_ino && now.st_size == read_as.st_size &&
        now.st_mtim.tv_sec == read_as.st_mtim.tv_sec && now.st_mtim.tv_nsec == read_as.st_mtim.tv_nsec) return 1;
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    parse(file);
    fclose(file);
    read_as = now;
    return 1;
}

static const char *find(const char *key) {
    for (int i = 0; i < line_count; i++)
        if (!strcmp(lines[i].key, key)) return lines[i].value;
    return NULL;
}

static const char *of_device(const Device *device, const char *key) {
    char full[64];
    snprintf(full, sizeof full, "%d.%s", device->index, key);
    const char *value = find(full);
    if (value) return value;
    snprintf(full, sizeof full, "*.%s", key);
    return find(full);
}

static unsigned long long number(const char *value, unsigned long long otherwise) {
    return value ? strtoull(value, NULL, 10) : otherwise;
}

/* The return code the scenario wants of this call on this device. */
static int refused(const Device *device, const char *call) {
    char key[40];
    if (!init_count) return UNINITIALIZED;
    if (!scenario()) return DRIVER_NOT_LOADED;
    const char *all = of_device(device, "all_err");
    snprintf(key, sizeof key, "%s_err", call);
    return (int)number(all ? all : of_device(device, key), SUCCESS);
}

static int put_text(const char *value, char *out, unsigned length) {
    snprintf(out, length, "%s", value);
    return SUCCESS;
}

EXPORT int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (!scenario()) return DRIVER_NOT_LOADED;
    int code = (int)number(find("init_err"), SUCCESS);
    if (code == SUCCESS) init_count++;
    return code;
}

EXPORT int nvmlShutdown(void) {
    if (!init_count) return UNINITIALIZED;
    init_count--;
    return SUCCESS;
}

EXPORT const char *nvmlErrorString(int code) {
    (void)code;
    return "an error of the test double";
}

EXPORT int nvmlSystemGetDriverVersion(char *out, unsigned length) {
    if (!init_count) return UNINITIALIZED;
    if (!scenario()) return DRIVER_NOT_LOADED;
    const char *value = find("driver");
    return put_text(value ? value : "570.124.06", out, length);
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count) {
    if (!init_count) return UNINITIALIZED;
    if (!scenario()) return DRIVER_NOT_LOADED;
    *count = (unsigned)number(find("count"), 1);
    return (int)number(find("count_err"), SUCCESS);
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
    if (index >= DEVICES) return INVALID_ARGUMENT;
    *device = &devices[index];
    (*device)->index = (int)index;
    int code = refused(*device, "handle");
    return !code && index >= number(find("count"), 1) ? INVALID_ARGUMENT : code;
}

EXPORT int nvmlDeviceGetName(Device *device, char *out, unsigned length) {
    int code = refused(device, "name");
    const char *value = of_device(device, "name");
    return code ? code : put_text(value ? value : "NVIDIA Test", out, length);
}

EXPORT int nvmlDeviceGetUUID(Device *device, char *out, unsigned length) {
    char made_up[64];
    int code = refused(device, "uuid");
    const char *value = of_device(device, "uuid");
    snprintf(made_up, sizeof made_up, "GPU-%08x-0000-0000-0000-000000000000", device->index);
    return code ? code : put_text(value ? value : made_up, out, length);
}

EXPORT int nvmlDeviceGetMemoryInfo(Device *device, Memory *out) {
    int code = refused(device, "memory");
    if (code) return code;
    out->total = number(of_device(device, "total"), 24 * GIB);
    out->used = number(of_device(device, "used"), 0) + number(of_device(device, "reserved"), 0);
    out->free = out->total - out->used;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(Device *device, MemoryV2 *out) {
    int code = refused(device, "memory_v2");
    if (code) return code;
    if (out->version != 0x02000028) return VERSION_MISMATCH;
    out->total = number(of_device(device, "total"), 24 * GIB);
    out->reserved = number(of_device(device, "reserved"), 0);
    out->used = number(of_device(device, "used"), 0);
    out->free = out->total - out->reserved - out->used;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetUtilizationRates(Device *device, Utilization *out) {
    out->gpu = (unsigned)number(of_device(device, "util"), 0);
    out->memory = 0;
    return refused(device, "util");
}

EXPORT int nvmlDeviceGetPowerUsage(Device *device, unsigned *out) {
    *out = (unsigned)number(of_device(device, "power"), 50000);
    return refused(device, "power");
}

EXPORT int nvmlDeviceGetTemperature(Device *device, int sensor, unsigned *out) {
    *out = (unsigned)number(of_device(device, "temp"), 30);
    return sensor ? INVALID_ARGUMENT : refused(device, "temp");
}

EXPORT int nvmlDeviceGetTemperatureV(Device *device, Temperature *out) {
    if (out->version != 0x0100000C) return VERSION_MISMATCH;
    out->temperature = (int)number(of_device(device, "temp"), 30);
    return refused(device, "temp_v");
}

/* Copies the lines `<device>.<kind> pid bytes`. The protocol is NVML's: too small a buffer gets the needed count. */
static int processes(Device *device, const char *kind, unsigned *room, Process *out) {
    char key[64];
    unsigned found = 0;
    int code = refused(device, kind);
    if (code) return code;
    snprintf(key, sizeof key, "%d.%s", device->index, kind);
    for (int i = 0; i < line_count; i++) {
        char used[32] = "na";
        unsigned pid;
        if (strcmp(lines[i].key, key) || sscanf(lines[i].value, "%u %31s", &pid, used) < 1) continue;
        if (out && found < *room)
            out[found] = (Process){pid, strcmp(used, "na") ? number(used, 0) : NOT_AVAILABLE, ~0u, ~0u};
        found++;
    }
    code = found > *room ? INSUFFICIENT_SIZE : SUCCESS;
    *room = found;
    return code;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned *count, Process *out) {
    return processes(device, "compute", count, out);
}

EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(Device *device, unsigned *count, Process *out) {
    return processes(device, "graphics", count, out);
}

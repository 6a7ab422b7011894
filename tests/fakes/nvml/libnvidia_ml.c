/* Test double of libnvidia-ml.so.1: the part of NVML's ABI that rltui calls, driven by a text file.
 *
 * The environment variable RLTUI_FAKE_NVML names the scenario file; it is read again whenever it changes, so a test
 * can change the machine while a reader runs. A line is `key value…`, `#` starts a comment:
 *
 *   driver 570.124.06      count 8               init_err 18         (NVML return code of nvmlInit)
 *   0.total 25769803776    *.reserved 268435456  0.used 1073741824   (bytes; free = total - reserved - used)
 *   0.name NVIDIA L4       0.uuid GPU-…          0.util 73 12        (percent: kernels running, memory in use)
 *   0.power 250000         0.power_limit 300000  (mW)                0.temp 61 (°C)       0.ecc 2
 *   0.sm_clock 1980        0.max_sm_clock 2100   0.memory_clock 2619 (MHz)
 *   0.throttle 0x44        0.pcie 4 16           0.nvlinks 1101      (state of each link, by number)
 *   0.compute 4242 1048576                       0.graphics 4242 na  (pid, bytes; repeat the line per process)
 *   0.mps 4243 1048576
 *   *.memory_v2_err 13     0.all_err 15                              (NVML return code of one call, or of all)
 *   *.compute_delay_ms 40  *.all_delay_ms 100                        (how long one call takes, or each)
 *   0.mig 1                0.1.uuid MIG-…        0.*.total 5100273664
 *   at 2.5 0.used 2147483648                     (from 2.5 s after nvmlInit)
 *   at 9 0.compute 4242 gone
 *
 * `*.` stands for every GPU; a line for one GPU wins over it. A MIG slice exists where `<gpu>.<slice>.uuid` does, and
 * has lines of its own. Names before `_err` and `_delay_ms` are those given to `refused`. Fields without a line are
 * not supported, but for memory, name, UUID, utilization, power and temperature, which always have a value.
 * Layouts and codes are NVIDIA's, from nvml.h. Not thread-safe.
 */
#include "scenario.h"

#define EXPORT __attribute__((visibility("default")))
#define GPUS 64
#define SLICES 7
#define GIB (1024ull * 1024 * 1024)
#define NOT_AVAILABLE 0xFFFFFFFFFFFFFFFFull

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
       DRIVER_NOT_LOADED = 9, VERSION_MISMATCH = 25 };

typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned version; int sensor; int temperature; } Temperature;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } Process;

static int init_count;
static Device gpus[GPUS];
static Device slices[GPUS][SLICES];

/* The return code the scenario wants of this call on this device, after the time it takes. */
static int refused(const Device *device, const char *call) {
    char key[48];
    if (!init_count) return UNINITIALIZED;
    if (!scenario()) return DRIVER_NOT_LOADED;
    snprintf(key, sizeof key, "%s_delay_ms", call);
    const char *delay = of_device(device, "all_delay_ms");
    wait_ms(number(delay ? delay : of_device(device, key), 0));
    snprintf(key, sizeof key, "%s_err", call);
    const char *code = of_device(device, "all_err");
    return (int)number(code ? code : of_device(device, key), SUCCESS);
}

static int put_text(const char *value, char *out, unsigned length) {
    snprintf(out, length, "%s", value);
    return SUCCESS;
}

/* A field that is supported where it has a line. MIG slices have none of these. */
static int put_number(const Device *device, const char *key, unsigned *out) {
    int code = refused(device, key);
    const char *value = of_device(device, key);
    if (!code && (!value || device->slice >= 0)) return NOT_SUPPORTED;
    *out = (unsigned)number(value, 0);
    return code;
}

EXPORT int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (!scenario()) return DRIVER_NOT_LOADED;
    wait_ms(number(find("init_delay_ms"), 0));
    int code = (int)number(find("init_err"), SUCCESS);
    if (code == SUCCESS && !init_count++) init_at = monotonic_s();
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
    if (index >= GPUS) return INVALID_ARGUMENT;
    *device = &gpus[index];
    **device = (Device){(int)index, -1};
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
    snprintf(made_up, sizeof made_up, "GPU-%08x-0000-0000-0000-000000000000", device->gpu);
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
    const char *value = of_device(device, "util");
    *out = (Utilization){0, 0};
    if (value) sscanf(value, "%u %u", &out->gpu, &out->memory);
    return device->slice >= 0 ? NOT_SUPPORTED : refused(device, "util");
}

EXPORT int nvmlDeviceGetPowerUsage(Device *device, unsigned *out) {
    *out = (unsigned)number(of_device(device, "power"), 50000);
    return device->slice >= 0 ? NOT_SUPPORTED : refused(device, "power");
}

EXPORT int nvmlDeviceGetEnforcedPowerLimit(Device *device, unsigned *out) {
    return put_number(device, "power_limit", out);
}

EXPORT int nvmlDeviceGetTemperature(Device *device, int sensor, unsigned *out) {
    *out = (unsigned)number(of_device(device, "temp"), 30);
    return sensor ? INVALID_ARGUMENT : device->slice >= 0 ? NOT_SUPPORTED : refused(device, "temp");
}

EXPORT int nvmlDeviceGetTemperatureV(Device *device, Temperature *out) {
    if (out->version != 0x0100000C) return VERSION_MISMATCH;
    out->temperature = (int)number(of_device(device, "temp"), 30);
    return device->slice >= 0 ? NOT_SUPPORTED : refused(device, "temp_v");
}

/* Clock types: 1 SM, 2 memory. */
EXPORT int nvmlDeviceGetClockInfo(Device *device, int type, unsigned *out) {
    return type != 1 && type != 2 ? INVALID_ARGUMENT : put_number(device, type == 1 ? "sm_clock" : "memory_clock", out);
}

EXPORT int nvmlDeviceGetMaxClockInfo(Device *device, int type, unsigned *out) {
    return type != 1 ? INVALID_ARGUMENT : put_number(device, "max_sm_clock", out);
}

EXPORT int nvmlDeviceGetCurrentClocksEventReasons(Device *device, unsigned long long *out) {
    unsigned bits = 0;
    int renamed = refused(device, "event_reasons");
    int code = renamed ? renamed : put_number(device, "throttle", &bits);
    *out = bits;
    return code;
}

EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(Device *device, unsigned long long *out) {
    unsigned bits = 0;
    int code = put_number(device, "throttle", &bits);
    *out = bits;
    return code;
}

/* Error types: 1 uncorrected. Counters: 0 since the driver was loaded. */
EXPORT int nvmlDeviceGetTotalEccErrors(Device *device, int type, int counter, unsigned long long *out) {
    unsigned count = 0;
    int code = type != 1 || counter != 0 ? INVALID_ARGUMENT : put_number(device, "ecc", &count);
    *out = count;
    return code;
}

EXPORT int nvmlDeviceGetCurrPcieLinkGeneration(Device *device, unsigned *out) {
    return put_number(device, "pcie", out);
}

EXPORT int nvmlDeviceGetCurrPcieLinkWidth(Device *device, unsigned *out) {
    int code = put_number(device, "pcie", out);
    if (!code) sscanf(of_device(device, "pcie"), "%*u %u", out);
    return code;
}

EXPORT int nvmlDeviceGetNvLinkState(Device *device, unsigned link, unsigned *active) {
    int code = put_number(device, "nvlinks", active);
    if (code) return code;
    const char *states = of_device(device, "nvlinks");
    if (link >= strlen(states)) return INVALID_ARGUMENT;
    *active = states[link] == '1';
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMigMode(Device *device, unsigned *current, unsigned *pending) {
    int code = put_number(device, "mig", current);
    *pending = *current;
    return code;
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned *count) {
    *count = SLICES;
    return refused(device, "mig_count");
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned index, Device **slice) {
    int code = refused(device, "mig_handle");
    if (code) return code;
    if (index >= SLICES) return INVALID_ARGUMENT;
    *slice = &slices[device->gpu][index];
    **slice = (Device){device->gpu, (int)index};
    return of_device(*slice, "uuid") ? SUCCESS : NOT_FOUND;
}

/* What the process of this line holds now, or NULL where another line of the same process counts, or it is gone. */
static const char *held(const Line *line, const char *key, unsigned *pid) {
    static char used[32];
    if (strcmp(line->key, key) || !has_come(line) || sscanf(line->value, "%u", pid) < 1) return NULL;
    for (const Line *other = lines; other < lines + line_count; other++) {
        unsigned of = 0;
        if (other->from_s > line->from_s && !strcmp(other->key, key) && has_come(other) &&
            sscanf(other->value, "%u", &of) == 1 && of == *pid) return NULL;
    }
    if (sscanf(line->value, "%*u %31s", used) < 1) return "na";
    return strcmp(used, "gone") ? used : NULL;
}

/* Copies the lines `<device>.<kind> pid bytes`. The protocol is NVML's: too small a buffer gets the needed count. */
static int processes(Device *device, const char *kind, unsigned *room, Process *out) {
    char key[64];
    unsigned found = 0, pid = 0;
    int code = refused(device, kind);
    if (code) return code;
    if (device->slice < 0) snprintf(key, sizeof key, "%d.%s", device->gpu, kind);
    else snprintf(key, sizeof key, "%d.%d.%s", device->gpu, device->slice, kind);
    for (const Line *line = lines; line < lines + line_count; line++) {
        const char *used = held(line, key, &pid);
        if (!used) continue;
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

EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(Device *device, unsigned *count, Process *out) {
    return processes(device, "mps", count, out);
}

/* The scenario file of the NVML double: parsing, and looking values up. Included by libnvidia_ml.c, which says what
 * may be in it. Not thread-safe. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define LINES 1024

typedef struct { int gpu, slice; } Device; /* slice: -1 for a whole GPU */
typedef struct { double from_s; char key[48]; char value[128]; } Line;

static Line lines[LINES];
static int line_count;
static struct stat read_as;
static double init_at;

static double monotonic_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void wait_ms(unsigned long long ms) {
    struct timespec left = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    while (ms && nanosleep(&left, &left)) {}
}

static void parse(FILE *file) {
    char text[256];
    line_count = 0;
    while (line_count < LINES && fgets(text, sizeof text, file)) {
        Line *line = &lines[line_count];
        int skipped = 0;
        text[strcspn(text, "#\n")] = 0;
        line->value[0] = 0;
        line->from_s = 0;
        if (sscanf(text, "at %lf %n", &line->from_s, &skipped) < 1) skipped = 0;
        if (sscanf(text + skipped, "%47s %127[^\n]", line->key, line->value) >= 1) line_count++;
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

static int has_come(const Line *line) {
    return line->from_s == 0 || monotonic_s() - init_at >= line->from_s;
}

/* Of several lines the latest that has come counts; of those without a time, the first. */
static const char *find(const char *key) {
    const Line *best = NULL;
    for (const Line *line = lines; line < lines + line_count; line++)
        if (!strcmp(line->key, key) && (!best || line->from_s > best->from_s) && has_come(line)) best = line;
    return best ? best->value : NULL;
}

/* `<gpu>.key` or `*.key`; for a MIG slice `<gpu>.<slice>.key` or `<gpu>.*.key`. */
static const char *of_device(const Device *device, const char *key) {
    char own[80], any[80];
    if (device->slice < 0) {
        snprintf(own, sizeof own, "%d.%s", device->gpu, key);
        snprintf(any, sizeof any, "*.%s", key);
    } else {
        snprintf(own, sizeof own, "%d.%d.%s", device->gpu, device->slice, key);
        snprintf(any, sizeof any, "%d.*.%s", device->gpu, key);
    }
    const char *value = find(own);
    return value ? value : find(any);
}

static unsigned long long number(const char *value, unsigned long long otherwise) {
    return value ? strtoull(value, NULL, 0) : otherwise;
}

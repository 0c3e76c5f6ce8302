/* Preloaded: every fsync and fdatasync takes 4 ms longer. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

static void wait_4ms(void) {
    struct timespec time = {0, 4000000};
    nanosleep(&time, 0);
}

int fsync(int fd) {
    static int (*real)(int);
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    wait_4ms();
    return real(fd);
}

int fdatasync(int fd) {
    static int (*real)(int);
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    wait_4ms();
    return real(fd);
}

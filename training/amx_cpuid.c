/* Lets PyTorch use AMX on virtual machines that hide what a tile is.
 *
 *     gcc -O1 -shared -fPIC training/amx_cpuid.c -o amx_cpuid.so
 *     LD_PRELOAD=$PWD/amx_cpuid.so python training/train.py ...
 *
 * The hypervisor offers AMX and returns zeros for CPUID leaf 0x1D, the sizes of tiles. oneDNN then loads an empty tile
 * configuration, and the first tile instruction ends the process (SIGILL). This library makes CPUID trap (Linux,
 * ARCH_SET_CPUID) and answers that leaf with the sizes of every processor that has AMX so far. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { ARCH_SET_CPUID = 0x1012, TILES = 0x1d, MULTIPLIER = 0x1e };

static void answer(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *code = (const unsigned char *)registers[REG_RIP];
    if (code[0] != 0x0f || code[1] != 0xa2) { /* not CPUID: a real fault */
        signal(SIGSEGV, SIG_DFL);
        return;
    }
    uint32_t leaf = registers[REG_RAX], part = registers[REG_RCX], a, b, c, d;
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, 1);
    __cpuid_count(leaf, part, a, b, c, d);
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0);
    if (leaf == 0 && a < MULTIPLIER) a = MULTIPLIER;
    if (leaf == TILES && part == 0) a = 1, b = c = d = 0;
    if (leaf == TILES && part == 1) a = 1024u << 16 | 8192, b = 8u << 16 | 64, c = 16, d = 0;
    if (leaf == MULTIPLIER && part == 0) a = 0, b = 64u << 8 | 16, c = d = 0;
    registers[REG_RAX] = a, registers[REG_RBX] = b, registers[REG_RCX] = c, registers[REG_RDX] = d;
    registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void begin(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = answer;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, 0);
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0);
}

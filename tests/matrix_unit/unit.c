/* A matrix unit (AMX) for processors without one: each of its instructions, which such a processor takes for illegal, is done here as the manual says.

The machine code is what runs on the real unit, byte for byte; what differs is who does eight of its instructions. What the unit would
refuse (tiles that were not configured, a palette or shape that there is not) is refused here too, as an illegal instruction. */

#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { TILES = 8, ROWS = 16, BYTES = 64 };

struct unit {
    int ready;
    uint8_t rows[TILES];
    uint16_t bytes[TILES];
    uint8_t data[TILES][ROWS][BYTES];
};

/* The unit of a thread, made by its first instruction; a handler may ask the system for memory, and nobody else. */
static __thread struct unit *unit __attribute__((tls_model("initial-exec")));
static struct sigaction before;
static uint64_t done;

static const int REGISTERS[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                  REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

struct place {
    const uint8_t *first;
    int64_t stride;
    int length; /* bytes of the instruction from its ModRM byte on */
};

/* What a memory operand means: base + displacement, and for tiles the index as a stride. No tile instruction is relative to the code. */
static int place_of(const uint8_t *modrm, int rex_x, int rex_b, const greg_t *registers, struct place *found) {
    int mode = modrm[0] >> 6, low = modrm[0] & 7;
    const uint8_t *rest = modrm + 1;
    int64_t base = 0, index = 0;
    if (mode == 3) return 0;
    if (low == 4) {
        uint8_t sib = *rest++;
        int base_number = (sib & 7) | rex_b << 3, index_number = (sib >> 3 & 7) | rex_x << 3;
        if (index_number != 4) index = registers[REGISTERS[index_number]] << (sib >> 6);
        if ((sib & 7) == 5 && mode == 0) {
            int32_t far;
            memcpy(&far, rest, 4);
            rest += 4;
            base = far;
        } else {
            base = registers[REGISTERS[base_number]];
        }
    } else if (low == 5 && mode == 0) {
        return 0;
    } else {
        base = registers[REGISTERS[low | rex_b << 3]];
    }
    if (mode == 1) base += (int8_t)*rest++;
    if (mode == 2) {
        int32_t far;
        memcpy(&far, rest, 4);
        rest += 4;
        base += far;
    }
    found->first = (const uint8_t *)(uintptr_t)base;
    found->stride = index;
    found->length = (int)(rest - modrm);
    return 1;
}

static int configure(const uint8_t *told) {
    if (told[0] == 0) {
        memset(unit, 0, sizeof *unit);
        return 1;
    }
    if (told[0] != 1 || told[1] != 0) return 0;
    for (int i = 2; i < 16; i++)
        if (told[i]) return 0;
    for (int tile = TILES; tile < 16; tile++)
        if (told[16 + 2 * tile] || told[17 + 2 * tile] || told[48 + tile]) return 0;
    memset(unit, 0, sizeof *unit);
    for (int tile = 0; tile < TILES; tile++) {
        memcpy(&unit->bytes[tile], told + 16 + 2 * tile, 2);
        unit->rows[tile] = told[48 + tile];
        if (unit->bytes[tile] > BYTES || unit->rows[tile] > ROWS || !unit->bytes[tile] != !unit->rows[tile]) return 0;
    }
    unit->ready = 1;
    return 1;
}

static float single_of(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    if ((bits & 0x7f800000) == 0) bits &= 0x80000000; /* denormals count as zero */
    memcpy(&value, &bits, 4);
    return value;
}

static float flushed(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if ((bits & 0x7f800000) == 0) bits &= 0x80000000;
    memcpy(&value, &bits, 4);
    return value;
}

/* C += A · B, where words of A and B hold two BF16, or four bytes that are signed or not. */
static int multiply(int c, int a, int b, int kind) {
    int n = unit->bytes[c] / 4, words = unit->bytes[a] / 4;
    if (!unit->ready || !unit->rows[c] || unit->rows[c] != unit->rows[a] || unit->bytes[c] != unit->bytes[b] || words != unit->rows[b]) return 0;
    if (c == a || c == b || a == b || unit->bytes[c] % 4 || unit->bytes[a] % 4) return 0;
    for (int i = 0; i < unit->rows[c]; i++) {
        if (kind == 0) {
            float sums[ROWS], high[ROWS], low[ROWS];
            memcpy(sums, unit->data[c][i], sizeof sums);
            memset(high, 0, sizeof high);
            memset(low, 0, sizeof low);
            for (int k = 0; k < words; k++) {
                const uint16_t *left = (const uint16_t *)unit->data[a][i] + 2 * k, *right = (const uint16_t *)unit->data[b][k];
                float first = single_of(left[0]), second = single_of(left[1]);
                for (int j = 0; j < n; j++) {
                    low[j] = flushed(low[j] + first * single_of(right[2 * j]));
                    high[j] = flushed(high[j] + second * single_of(right[2 * j + 1]));
                }
            }
            for (int j = 0; j < n; j++) sums[j] = flushed(sums[j] + flushed(low[j] + high[j]));
            memcpy(unit->data[c][i], sums, 4 * n);
        } else {
            int32_t sums[ROWS];
            memcpy(sums, unit->data[c][i], sizeof sums);
            for (int k = 0; k < words; k++)
                for (int j = 0; j < n; j++)
                    for (int g = 0; g < 4; g++) {
                        uint8_t left = unit->data[a][i][4 * k + g], right = unit->data[b][k][4 * j + g];
                        int32_t one = kind & 2 ? (int8_t)left : left, other = kind & 4 ? (int8_t)right : right;
                        sums[j] = (int32_t)((uint32_t)sums[j] + (uint32_t)(one * other));
                    }
            memcpy(unit->data[c][i], sums, 4 * n);
        }
    }
    return 1;
}

/* The kinds of products of bytes by prefix: none uu, 66 us, F3 su, F2 ss; bit 1: A is signed, bit 2: B is. */
static const int SIGNS[4] = {1, 1 | 4, 1 | 2, 1 | 2 | 4};

/* Do the instruction; how long it is, or 0 if it is none of the unit's. */
static int perform(const uint8_t *code, const greg_t *registers) {
    if (code[0] != 0xc4 || (code[1] & 0x1f) != 2 || code[2] & 0x84) return 0; /* VEX, 0F38, W0, 128 bits */
    int rex_x = !(code[1] & 0x40), rex_b = !(code[1] & 0x20), other = ~(code[2] >> 3) & 15, prefix = code[2] & 3;
    const uint8_t *modrm = code + 4;
    int tile = modrm[0] >> 3 & 7, low = modrm[0] & 7;
    struct place place;
    if (code[3] == 0x49) {
        if (modrm[0] == 0xc0 && prefix == 0) {
            memset(unit, 0, sizeof *unit);
            return 5;
        }
        if (modrm[0] >> 6 == 3) {
            if (prefix != 3 || low || !unit->ready) return 0;
            memset(unit->data[tile], 0, sizeof unit->data[tile]);
            return 5;
        }
        if (prefix || tile || !place_of(modrm, rex_x, rex_b, registers, &place)) return 0;
        const uint8_t *from = place.first + place.stride;
        return configure(from) ? 4 + place.length : 0;
    }
    if (code[3] == 0x4b) {
        if (!prefix || low != 4 || !unit->ready || !unit->rows[tile] || !place_of(modrm, rex_x, rex_b, registers, &place)) return 0;
        if (prefix == 2) {
            for (int row = 0; row < unit->rows[tile]; row++) memcpy((uint8_t *)place.first + row * place.stride, unit->data[tile][row], unit->bytes[tile]);
        } else {
            memset(unit->data[tile], 0, sizeof unit->data[tile]);
            for (int row = 0; row < unit->rows[tile]; row++) memcpy(unit->data[tile][row], place.first + row * place.stride, unit->bytes[tile]);
        }
        return 4 + place.length;
    }
    if (modrm[0] >> 6 != 3 || other >= TILES) return 0;
    if (code[3] == 0x5c && prefix == 2) return multiply(tile, low, other, 0) ? 5 : 0;
    if (code[3] == 0x5e) return multiply(tile, low, other, SIGNS[prefix]) ? 5 : 0;
    return 0;
}

static void illegal(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (!unit) unit = mmap(NULL, sizeof(struct unit), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (unit == MAP_FAILED) abort();
    int length = perform((const uint8_t *)registers[REG_RIP], registers);
    (void)number;
    (void)info;
    if (!length) {
        const uint8_t *code = (const uint8_t *)registers[REG_RIP];
        dprintf(2, "not done by the stand-in of the matrix unit: %02x %02x %02x %02x %02x %02x\n", code[0], code[1], code[2], code[3], code[4], code[5]);
        sigaction(SIGILL, &before, NULL); /* the instruction comes again, and ends as it would have */
        return;
    }
    registers[REG_RIP] += length;
    __atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
}

int unit_begin(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = illegal;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    return sigaction(SIGILL, &action, &before);
}

uint64_t unit_done(void) { return __atomic_load_n(&done, __ATOMIC_RELAXED); }

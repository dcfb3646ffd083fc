// Writes reseed.node, a module with 11 bytes of code for x86-64. Loading it calls OpenSSL's
// RAND_poll, which is in the node program itself. Node has no other way to make OpenSSL read new
// randomness, and all sandboxes restored from one snapshot would generate the same keys for up to
// an hour. There is no C compiler where images are built, so this file writes the ELF file
// directly: headers, symbols and code in one segment, and the part that the linker changes in
// another.
//
//	node native.mjs FILE
import { writeFileSync } from 'node:fs';

const PAGE = 0x1000;
const file = Buffer.alloc(PAGE + 0x100);
const put = (at, ...fields) => { // [bytes, value]
  for (const [size, value] of fields) {
    if (size === 8) file.writeBigUInt64LE(BigInt(value), at);
    else file.writeUIntLE(value, at, size);
    at += size;
  }
  return at;
};

// Addresses of the parts; an offset in the file is an address.
const [HASH, SYMBOLS, STRINGS, RELOCATIONS, CODE] = [0x200, 0x240, 0x2a0, 0x300, 0x340];
const [DYNAMIC, SLOT] = [PAGE, PAGE + 0xf0];

const names = '\0RAND_poll\0napi_register_module_v1\0';
file.write(names, STRINGS, 'latin1');

// push rsi; call [rip + SLOT]; pop rax; ret: it returns its second argument, the module's exports.
file.set([0x56, 0xff, 0x15], CODE);
file.writeInt32LE(SLOT - (CODE + 7), CODE + 3);
file.set([0x58, 0xc3], CODE + 7);

const symbol = (at, name, info, section, value, size) => put(at, [4, name], [1, info], [1, 0], [2, section], [8, value], [8, size]);
const GLOBAL_FUNCTION = 0x12;
symbol(SYMBOLS + 24, 1, GLOBAL_FUNCTION, 0, 0, 0); // undefined: node provides it
symbol(SYMBOLS + 48, names.indexOf('napi'), GLOBAL_FUNCTION, 1, CODE, 9);
put(HASH, [4, 1], [4, 3], [4, 2], [4, 0], [4, 0], [4, 1]); // one bucket: symbol 2, then 1
put(RELOCATIONS, [8, SLOT], [4, 6 /* R_X86_64_GLOB_DAT */], [4, 1], [8, 0]);

const [DT_NULL, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_RELAENT, DT_STRSZ, DT_SYMENT] = [0, 4, 5, 6, 7, 8, 9, 10, 11];
let at = DYNAMIC;
for (const [tag, value] of [
  [DT_HASH, HASH], [DT_STRTAB, STRINGS], [DT_SYMTAB, SYMBOLS], [DT_STRSZ, names.length], [DT_SYMENT, 24],
  [DT_RELA, RELOCATIONS], [DT_RELASZ, 24], [DT_RELAENT, 24], [DT_NULL, 0],
]) at = put(at, [8, tag], [8, value]);

const [LOAD, DYNAMIC_SEGMENT, STACK] = [1, 2, 0x6474e551];
const [R, W, X] = [4, 2, 1];
const segments = [
  [LOAD, R | X, 0, CODE + 16, PAGE],
  [LOAD, R | W, PAGE, 0x100, PAGE],
  [DYNAMIC_SEGMENT, R | W, DYNAMIC, at - DYNAMIC, 8],
  [STACK, R | W, 0, 0, 16],
];
file.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0]); // ELF, 64 bits, little-endian
put(16, [2, 3 /* shared object */], [2, 62 /* x86-64 */], [4, 1], [8, 0], [8, 64], [8, 0], [4, 0],
  [2, 64], [2, 56], [2, segments.length], [2, 0], [2, 0], [2, 0]);
at = 64;
for (const [type, flags, offset, size, align] of segments) {
  at = put(at, [4, type], [4, flags], [8, offset], [8, offset], [8, offset], [8, size], [8, size], [8, align]);
}

writeFileSync(process.argv[2], file, { mode: 0o644 });

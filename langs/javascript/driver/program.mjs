// Loaded before a program that runs as a separate process: it allows TypeScript with enums,
// decorators and JSX in it and in its imports.
import { createRequire } from 'node:module';

createRequire(import.meta.url)('./modules.js').hooks();

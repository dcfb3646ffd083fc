// Loaded before a program that runs as a process of its own: lets it be, and
// import, TypeScript with enums, decorators and JSX.
import { createRequire } from 'node:module';

createRequire(import.meta.url)('./modules.js').hooks();

// Runs one program as a CommonJS or ES module, calls its function main if the program has one to
// call, and sends the outcome as a display with the type of this package.
const sandgateProgram = async (text) => {
  const fs = require('node:fs');
  const path = require('node:path');
  const { inspect } = require('node:util');
  const p = JSON.parse(text);
  const { stringify } = JSON;
  const { raw } = display;
  const usage = process.resourceUsage.bind(process);
  const write = process.stderr.write.bind(process.stderr);
  const send = (outcome) => raw({ [p.type]: { ...outcome, memory_kb: usage().maxRSS } });

  // The frames of Node and of this function are not the program's.
  const stackOf = (error) => {
    const stack = error instanceof Error ? String(error.stack ?? error) : inspect(error);
    return stack.split('\n').filter((line) => !/^\s+at .*(node:|sandgateProgram|\/opt\/sandgate\/)/.test(line)).join('\n');
  };

  const file = path.join(process.cwd(), p.file);
  // A program need not export main.
  const offer = p.call
    ? '\n;if (typeof main === "function" && typeof module === "object" && module.exports && ' +
      'typeof module.exports !== "function" && !("main" in module.exports)) module.exports.main = main;'
    : '';
  fs.writeFileSync(file, p.code + offer);
  const helpers = new Function('require', `${p.helpers}\nreturn {
    prepare: typeof prepare === 'function' ? prepare : () => {},
    call: typeof call === 'function' ? call : (main, args) => main(args),
    settle: typeof settle === 'function' ? settle : (value) => value,
  };`)(require);
  helpers.prepare(p.arguments);
  try {
    const made = require(file);
    if (!p.call) return void send({});
    const main = typeof made === 'function' ? made : made?.main ?? made?.default;
    if (typeof main !== 'function') throw new TypeError('the code defines no function main');
    const value = stringify(helpers.settle(await helpers.call(main, p.arguments)));
    if (value === undefined) throw new TypeError('main returned a value that JSON cannot represent');
    send({ value });
  } catch (error) {
    const traceback = stackOf(error);
    write(`${traceback}\n`);
    const message = error instanceof Error ? error.message : String(error);
    send({ error: { name: String(error?.name ?? 'Error'), message, traceback: `${traceback}\n` } });
  }
};

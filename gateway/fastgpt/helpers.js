// The names that code of FastGPT may use. Its function main gets the variables.
const prepare = (variables) => {
  const { createHmac: hmac } = require('node:crypto');
  let room = 1 << 20; // characters that the log may still have

  const text = (value) => (typeof value === 'object' ? JSON.stringify(value) : String(value));
  const log = (...values) => {
    const line = values.map(text).join(' ');
    if (line.length > room) return;
    room -= line.length;
    process.stdout.write(`${line}\n`);
  };
  for (const name of ['log', 'info', 'warn', 'error', 'debug', 'trace', 'dir', 'table']) console[name] = log;

  const httpRequest = async (url, { method = 'GET', headers = {}, body, timeout } = {}) => {
    if (!/^https?:$/.test(new URL(url).protocol)) throw new Error('the protocol is http or https');
    const sent = { ...headers };
    const known = Object.keys(sent).some((name) => name.toLowerCase() === 'content-type');
    if (body != null && !known) sent['Content-Type'] = 'application/json';
    const seconds = timeout > 0 ? Math.min(timeout, 60) : 60;
    const answer = await fetch(url, {
      method: method.toUpperCase(), headers: sent, signal: AbortSignal.timeout(seconds * 1000),
      body: body == null || typeof body === 'string' ? body : JSON.stringify(body),
    });
    const chunks = [];
    let size = 0;
    for await (const chunk of answer.body ?? []) {
      size += chunk.length;
      if (size > 10 << 20) throw new Error('the answer has over 10 MiB');
      chunks.push(chunk);
    }
    return {
      status: answer.status, statusText: answer.statusText,
      headers: Object.fromEntries(answer.headers), data: Buffer.concat(chunks).toString(),
    };
  };

  Object.assign(globalThis, {
    variables, httpRequest,
    SystemHelper: Object.freeze({ httpRequest }),
    countToken: (value) => Math.ceil(String(value).length / 4),
    strToBase64: (value, prefix = '') => prefix + Buffer.from(value, 'utf8').toString('base64'),
    createHmac: (algorithm, secret) => {
      const timestamp = String(Date.now());
      const sign = hmac(algorithm, secret).update(`${timestamp}\n${secret}`).digest('base64');
      return { timestamp, sign: encodeURIComponent(sign) };
    },
    delay: (ms) => {
      if (ms > 10000) throw new Error('a delay is at most 10000 ms');
      return new Promise((resolve) => setTimeout(resolve, ms));
    },
  });
};
const settle = (value) => (value === undefined ? null : value);

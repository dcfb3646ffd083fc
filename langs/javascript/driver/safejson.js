'use strict';
// JSON of any value.
const MAX_DEPTH = 64;

// dumps returns JSON. It never fails: values that JSON lacks become text.
function dumps(value) {
  try {
    const json = JSON.stringify(value);
    if (json !== undefined) return json;
  } catch {
    // Cyclic, a bigint, or a toJSON that throws.
  }
  try {
    return JSON.stringify(clean(value, 0, [])) ?? 'null';
  } catch {
    return 'null';
  }
}

// clean converts any value to one that JSON can represent.
function clean(value, depth, above) {
  switch (typeof value) {
    case 'bigint':
      return value.toString();
    case 'symbol':
    case 'function':
      return undefined;
    case 'object':
      break;
    default:
      return value;
  }
  if (value === null) return null;
  try {
    if (above.includes(value)) return '[Circular]';
    if (depth >= MAX_DEPTH) return '[…]';
    if (ArrayBuffer.isView(value)) {
      return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64');
    }
    if (typeof value.toJSON === 'function') {
      const json = value.toJSON();
      if (json === null || typeof json !== 'object') return clean(json, depth + 1, above);
    }
    const inside = [...above, value];
    if (Array.isArray(value)) return Array.from(value, (v) => clean(v, depth + 1, inside) ?? null);
    if (value instanceof Map) value = Object.fromEntries(value);
    else if (value instanceof Set) return Array.from(value, (v) => clean(v, depth + 1, inside) ?? null);
    const copy = {};
    for (const key of Object.keys(value)) {
      const v = clean(value[key], depth + 1, inside);
      if (v !== undefined) copy[key] = v;
    }
    return copy;
  } catch {
    return '[…]';
  }
}

module.exports = { dumps };

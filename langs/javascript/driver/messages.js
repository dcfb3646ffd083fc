'use strict';
// Messages in Jupyter's format, limited to the size of a frame.
const { dumps } = require('./safejson.js');
const { shorten } = require('./errors.js');
const { STDERR } = require('./output.js');
const { MAX_BODY } = require('./shared.js');

const MAX_TEXT = 1 << 20; // characters of text/plain

const size = (json) => (json.length * 3 <= MAX_BODY ? 0 : Buffer.byteLength(json));

class Messages {
  #output;

  constructor(output) {
    this.#output = output;
  }

  send(type, content, cell) {
    const body = dumps({ msg_type: type, content });
    const n = size(body);
    if (n <= MAX_BODY) this.#output.message(body, cell);
    else this.#output.text(STDERR, `${type} of ${n} bytes left out: the limit is ${MAX_BODY} bytes\n`, cell);
  }

  // bundle sends display_data, update_display_data or execute_result.
  bundle(type, data, { metadata = {}, id, count, cell } = {}) {
    const text = data['text/plain'];
    if (typeof text === 'string') data['text/plain'] = shorten(text, MAX_TEXT);
    const content = { data, metadata };
    if (id !== undefined) content.transient = { display_id: String(id) };
    if (count !== undefined) content.execution_count = count;
    const body = dumps({ msg_type: type, content });
    const n = size(body);
    if (n <= MAX_BODY) return this.#output.message(body, cell);
    const left = Object.keys(data).filter((key) => key !== 'text/plain').sort().join(', ') || 'text/plain';
    this.#output.text(STDERR, `${left} of ${n} bytes left out: the limit is ${MAX_BODY} bytes\n`, cell);
    content.data = { 'text/plain': data['text/plain'] ?? `<${left}>` };
    content.metadata = {};
    return this.#output.message(dumps({ msg_type: type, content }), cell);
  }
}

module.exports = { Messages };

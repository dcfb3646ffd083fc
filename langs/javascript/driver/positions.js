'use strict';
// Maps positions in the running code to positions in the user's code.
const { SourceMap } = require('node:module');

// Edits collects changes of a source and maps positions in the result to positions in the source.
class Edits {
  #source;
  #list = []; // {at, end, text}: text replaces the source from at to end
  #head = []; // pieces at the beginning: text, or [from, to] of the source
  #tail = ''; // text at the end

  constructor(source) {
    this.#source = source;
  }

  replace(at, end, text, rank = 0) {
    this.#list.push({ at, end, text, rank, order: this.#list.length });
  }

  // insert puts text at the offset.
  insert(at, text) {
    this.replace(at, at, text);
  }

  // wrap puts text around a node of the syntax tree. If two nodes begin or end at the same place,
  // the larger one's text is outside.
  wrap({ start, end }, open, close) {
    if (open) this.replace(start, start, open, 1 + 1 / (1 + end));
    if (close) this.replace(end, end, close, -2 + 1 / (1 + start));
  }

  // blank removes the source from at to end, and keeps its line breaks.
  blank(at, end) {
    this.replace(at, end, this.#source.slice(at, end).replace(/[^\n\r\u2028\u2029]/g, ' '));
  }

  // first puts pieces before everything else, in the first line.
  first(...pieces) {
    this.#head.push(...pieces);
  }

  // hoist moves a node before everything else, between two texts.
  hoist({ start, end }, before, after) {
    this.#head.push(before, [start, end], after);
    this.blank(start, end);
    this.#list.at(-1).moves = true;
  }

  // veryFirst puts text before those pieces.
  veryFirst(text) {
    this.#head.unshift(text);
  }

  // last puts text after everything else.
  last(text) {
    this.#tail += text;
  }

  get empty() {
    return this.#list.length === 0 && this.#head.length === 0 && this.#tail === '';
  }

  // apply returns the result and the pieces of the source in it: [start in the result, start in the
  // source, length].
  apply() {
    const kept = [];
    let out = '';
    const keep = (from, to) => {
      if (to <= from) return;
      kept.push([out.length, from, to - from]);
      out += this.#source.slice(from, to);
    };
    this.#list.sort((a, b) => a.at - b.at || (a.end > a.at) - (b.end > b.at) || a.rank - b.rank || a.order - b.order);
    const render = (from, to, moved) => {
      let at = from;
      for (const edit of this.#list) {
        // Skip edits outside of this piece, inside a removed part, or of a moved node.
        if (edit.at < at || edit.end > to || (moved && edit.moves)) continue;
        keep(at, edit.at);
        out += edit.text;
        at = edit.end;
      }
      keep(at, to);
    };
    for (const piece of this.#head) {
      if (typeof piece === 'string') out += piece;
      else render(piece[0], piece[1], true);
    }
    render(0, this.#source.length, false);
    return { code: out + this.#tail, kept };
  }
}

// lineStarts returns the offset of each line.
function lineStarts(text) {
  const starts = [0];
  for (let i = 0; (i = text.indexOf('\n', i)) >= 0; ) starts.push(++i);
  return starts;
}

// place returns the line and column, from 0, of an offset.
function place(starts, offset) {
  let low = 0;
  for (let high = starts.length; high - low > 1; ) {
    const middle = (low + high) >> 1;
    if (starts[middle] <= offset) low = middle;
    else high = middle;
  }
  return { line: low, column: offset - starts[low] };
}

// Origin maps the code of one cell back to its source.
class Origin {
  // source is the user's code. script is the same as JavaScript, with map if its positions differ.
  // code and kept are the result of Edits.
  constructor({ name, source, script, map, code, kept }) {
    this.name = name;
    this.source = source;
    this.map = map ? new SourceMap(map) : null;
    if (kept) {
      this.kept = kept;
      this.codeLines = lineStarts(code);
      this.scriptLines = lineStarts(script);
    }
  }

  // find returns the user's line and column, from 1, for a position in the running code.
  find(line, column) {
    let at = { line: line - 1, column: column - 1 };
    if (this.kept) {
      const start = this.codeLines[Math.min(at.line, this.codeLines.length - 1)];
      at = place(this.scriptLines, this.#offset(start + at.column));
    }
    if (this.map) {
      const entry = this.map.findEntry(at.line, at.column);
      if (entry.originalLine !== undefined) {
        at = { line: entry.originalLine, column: entry.originalColumn };
      }
    }
    return { line: at.line + 1, column: at.column + 1 };
  }

  #offset(offset) {
    let best = 0;
    for (const [to, from, length] of this.kept) {
      if (offset >= to && offset < to + length) return from + offset - to;
      if (to + length <= offset) best = from + length;
    }
    return best;
  }

  line(n) {
    return this.source.split('\n')[n - 1] ?? '';
  }
}

// Origins finds a cell's source by its name.
class Origins {
  #known = new Map();

  add(origin) {
    this.#known.set(origin.name, origin);
  }

  get(name) {
    return this.#known.get(name);
  }

  // translate replaces the positions in a line of a stack.
  translate(text) {
    return text.replace(/(cell_\w+\.[jt]s):(\d+):(\d+)/g, (all, name, line, column) => {
      const origin = this.#known.get(name);
      if (!origin || (!origin.kept && !origin.map)) return all;
      const at = origin.find(Number(line), Number(column));
      return `${name}:${at.line}:${at.column}`;
    });
  }
}

module.exports = { Edits, Origin, Origins };

/** The style sheet of PDFs in the frame. That of the text layer is from pdf.js, shortened. */
export const style = `
html { background: var(--sunken); }
#root { padding: 0; }
.pdf-bar { position: sticky; top: 0; z-index: 3; display: flex; align-items: center; gap: 8px; padding: 6px 12px; border-bottom: 1px solid var(--line); background: var(--surface); color: var(--ink); font-size: 13px; }
.pdf-bar [role="status"] { margin-inline-start: auto; }
.pdf-bar button, .pdf-password button { min-width: 32px; min-height: 30px; border: 1px solid var(--line); border-radius: 5px; background: var(--surface); color: inherit; font: inherit; cursor: pointer; }
.pdf-bar button:hover { background: var(--hover); }
.pdf-bar button:focus-visible { outline: 2px solid var(--accent); }
.pdf-pages { display: grid; justify-items: center; gap: 12px; padding: 12px; }
.pdf-page { position: relative; background: #fff; color: #1d2026; box-shadow: 0 1px 4px #0004; }
.pdf-page canvas { width: 100%; height: 100%; display: block; }
.pdf-password { display: grid; gap: 8px; max-width: 320px; margin: 48px auto; padding: 0 12px; }
.pdf-password label { display: grid; gap: 4px; }
.pdf-password input { min-height: 32px; font: inherit; }
.textLayer { position: absolute; inset: 0; overflow: clip; line-height: 1; text-align: initial; text-size-adjust: none; forced-color-adjust: none; transform-origin: 0 0; --min-font-size: 1; --text-scale-factor: calc(var(--total-scale-factor) * var(--min-font-size)); --min-font-size-inv: calc(1 / var(--min-font-size)); }
.textLayer :is(span, br) { position: absolute; color: transparent; white-space: pre; cursor: text; transform-origin: 0% 0%; }
.textLayer > :not(.markedContent), .textLayer .markedContent span:not(.markedContent) { z-index: 1; --font-height: 0; font-size: calc(var(--text-scale-factor) * var(--font-height)); --scale-x: 1; --rotate: 0deg; transform: rotate(var(--rotate)) scaleX(var(--scale-x)) scale(var(--min-font-size-inv)); }
.textLayer .markedContent { display: contents; }
.textLayer ::selection { background: #0b6e6e55; }
`

// The ticket comes first: the server can be framed by the pages that tickets name.
const frame = document.querySelector('iframe')
const sandgate = new URL(frame.dataset.src).origin
const mint = async () => (await (await fetch('/ticket?embed', { method: 'POST' })).json()).ticket
const tell = (message) => frame.contentWindow.postMessage(message, sandgate)

let ticket = await mint()
addEventListener('message', async (e) => {
  if (e.source !== frame.contentWindow || e.origin !== sandgate) return
  if (e.data.type === 'code-run:ready') tell({ type: 'code-run:init', language: 'python', code: 'print("in a frame", 6 * 7)' })
  if (e.data.type === 'code-run:height') frame.height = e.data.height + 24
  if (e.data.type === 'code-run:ticket') {
    tell({ type: 'code-run:ticket', ticket: ticket ?? (await mint()) })
    ticket = undefined
  }
})
frame.src = frame.dataset.src

// Shows the parts of an answer as they come. Code blocks get run buttons, whose code runs in the
// session of the conversation.
const chat = document.getElementById('chat')
const form = document.getElementById('ask')
let id = ''

const element = (tag, props, ...inside) => {
  const e = Object.assign(document.createElement(tag), props)
  e.append(...inside)
  return e
}
const block = (code, language) => element('pre', {}, element('code', { className: `language-${language}` }, code))

/** Returns the elements of a text with code blocks in Markdown. */
function render(text) {
  return text.split(/^```(.*)\n([^]*?)^```\s*$/m).flatMap((part, i, parts) => {
    if (i % 3 === 0) return part.trim() ? [element('div', {}, part.trim())] : []
    return i % 3 === 2 ? [block(part, parts[i - 1].trim() || 'text')] : []
  })
}

const shown = {
  conversation: (part) => { id = part.id; return [] },
  text: (part) => render(part.text),
  error: (part) => [element('div', {}, `Failed: ${part.text}`)],
  run: (part) => [
    block(part.code, part.language), element('pre', { className: 'result' }, part.text),
    ...part.pictures.map((picture) => element('img', { alt: 'picture', src: `data:image/png;base64,${picture}` })),
    ...part.files.map((file) => element('a', { href: file.url, target: '_blank', rel: 'noopener' }, file.path)),
  ],
}

async function ask(text) {
  chat.append(element('div', { className: 'message user' }, text))
  const message = element('div', { className: 'message' })
  chat.append(message)
  const response = await fetch(`/chat/${id}`, { method: 'POST', body: text })
  if (!response.ok) throw new Error(await response.text())
  let held = ''
  for (const reader = response.body.pipeThrough(new TextDecoderStream()).getReader(); ;) {
    const { done, value } = await reader.read()
    if (done) return
    const lines = (held + value).split('\n')
    held = lines.pop()
    for (const line of lines) {
      const part = JSON.parse(line)
      message.append(...shown[part.type](part))
    }
  }
}

CodeRun.enhance(chat, {
  languages: chat.dataset.languages.split(' '), timeout: 60,
  ticket: async () => (await (await fetch(`/ticket/${id}`, { method: 'POST' })).json()).ticket,
})
form.addEventListener('submit', (event) => {
  event.preventDefault()
  const [field, button] = form.elements
  button.disabled = true
  void ask(field.value).catch((error) => chat.append(String(error))).finally(() => { button.disabled = false })
  field.value = ''
})

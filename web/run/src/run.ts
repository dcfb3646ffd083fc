// <script src="https://sandgate.example/run.js" data-ticket="/ticket" data-enhance></script>
import { CodeRun, settings, type Settings } from './element.js'
import { enhance } from './enhance.js'

const script = document.currentScript as HTMLScriptElement | null
if (script?.src) settings.gateway = new URL(script.src).origin
settings.notebook = (code, language) => `${settings.gateway}/#${new URLSearchParams({ new: language, code })}`

// A script of the page's own server that issues a ticket: POST → {ticket}.
const url = script?.dataset.ticket
if (url) {
  settings.ticket = async () => {
    const res = await fetch(url, { method: 'POST', credentials: 'same-origin' })
    if (!res.ok) throw new Error('This page may not run code.')
    return ((await res.json()) as { ticket: string }).ticket
  }
}

if (!customElements.get('code-run')) customElements.define('code-run', CodeRun)
Object.assign(window, { CodeRun: { enhance, element: CodeRun, configure: (s: Settings) => Object.assign(settings, s) } })
if (script && 'enhance' in script.dataset) {
  const languages = script.dataset.languages?.split(' ')
  const all = () => enhance(document.body, languages && { languages })
  if (document.body && document.readyState !== 'loading') all()
  else document.addEventListener('DOMContentLoaded', all)
}

/** Removes everything but the given elements and attributes from HTML. It replaces sanitize-html. */
export default function sanitize(html: string, o: { allowedTags: string[]; allowedAttributes: Record<string, string[]> }): string {
  const { body } = new DOMParser().parseFromString(html, 'text/html')
  for (const el of [...body.querySelectorAll('*')].reverse()) {
    const tag = el.localName
    if (tag === 'script' || tag === 'style' || tag === 'template') el.remove()
    else if (!o.allowedTags.includes(tag)) el.replaceWith(...el.childNodes)
    else {
      const allowed = [...(o.allowedAttributes['*'] ?? []), ...(o.allowedAttributes[tag] ?? [])]
      for (const { name, value } of [...el.attributes]) {
        const known = allowed.includes(name) || (name.startsWith('aria-') && allowed.includes('aria-*'))
        if (!known || ((name === 'href' || name === 'src') && !/^(?:https?:|mailto:|data:image\/|#)/i.test(value.trim()))) el.removeAttribute(name)
      }
    }
  }
  return body.innerHTML
}

type Language = 'en' | 'de'

/** The German texts by the English ones, which the code has. */
export const german: Record<string, string> = {
  Run: 'Ausführen',
  'Run again': 'Erneut ausführen',
  Stop: 'Stoppen',
  'Copy output': 'Ausgabe kopieren',
  'Open in notebook': 'Im Notebook öffnen',
  '{} code': '{}-Code',
  Output: 'Ausgabe',
  output: 'Ausgabe',
  picture: 'Bild',
  'Starting…': 'Wird gestartet…',
  Running: 'Läuft',
  'Waiting for input': 'Wartet auf Eingabe',
  Input: 'Eingabe',
  Send: 'Senden',
  Done: 'Fertig',
  Failed: 'Fehlgeschlagen',
  Stopped: 'Gestoppt',
  'Out of time': 'Zeit abgelaufen',
  Copied: 'Kopiert',
  'exit status {}': 'Exit-Status {}',
  '{} bytes over the limit were left out.': '{} Bytes über der Grenze wurden ausgelassen.',
  'Only {} are shown.': 'Nur {} werden angezeigt.',
  'The first {} lines are not shown.': 'Die ersten {} Zeilen werden nicht angezeigt.',
  'Files:': 'Dateien:',
  'Something broke.': 'Ein Fehler ist aufgetreten.',
  'The server cannot be reached.': 'Der Server ist nicht erreichbar.',
  'The connection broke.': 'Die Verbindung ist abgebrochen.',
  'This page may not run code.': 'Diese Seite darf keinen Code ausführen.',
  'This page gave no ticket.': 'Diese Seite hat kein Ticket ausgestellt.',
}

/** Returns the language of the button for a language tag. */
export function choose(tag: string): Language {
  return /^de\b/i.test(tag) ? 'de' : 'en'
}

/** Returns the language at an element: of its nearest lang attribute, the page or the browser. */
export function languageOf(at: Element): Language {
  return choose(at.closest<HTMLElement>('[lang]')?.lang || document.documentElement.lang || navigator.language)
}

/** Returns a text in the language at an element, with a value for {}. Other texts do not change. */
export function translated(at: Element, text: string, value: string | number = '{}'): string {
  const found = languageOf(at) === 'de' && Object.hasOwn(german, text) ? german[text]! : text
  return found.replace('{}', () => String(value))
}

// The frame of PDFs has no settings and no catalogue, so it has its few texts here, in the first
// language of the browser that the application has.
const english = {
  tag: 'en',
  open: 'Open',
  password: 'This file has a password.',
  wrongPassword: 'This password is wrong. Try another one.',
  pages: 'Pages',
  page: (n: number) => `Page ${n}`,
  pageOf: (n: number, all: number) => `Page ${n} of ${all}`,
  smaller: 'Smaller',
  larger: 'Larger',
  fitWidth: 'Fit width',
  badFile: (message: string) => `This file cannot be shown: ${message}`,
  badPage: (message: string) => `This page cannot be shown: ${message}`,
  noPart: (name: string) => `${name} is not there`,
}

const german: typeof english = {
  tag: 'de',
  open: 'Öffnen',
  password: 'Diese Datei hat ein Passwort.',
  wrongPassword: 'Das Passwort ist falsch. Bitte ein anderes eingeben.',
  pages: 'Seiten',
  page: (n) => `Seite ${n}`,
  pageOf: (n, all) => `Seite ${n} von ${all}`,
  smaller: 'Kleiner',
  larger: 'Größer',
  fitWidth: 'An Breite anpassen',
  badFile: (message) => `Die Datei kann nicht angezeigt werden: ${message}`,
  badPage: (message) => `Die Seite kann nicht angezeigt werden: ${message}`,
  noPart: (name) => `${name} fehlt`,
}

const known = [english, german]

/** The texts in the language of the browser. */
export const words = navigator.languages.map((l) => known.find(({ tag }) => l.split('-', 1)[0]!.toLowerCase() === tag)).find((found) => found) ?? english

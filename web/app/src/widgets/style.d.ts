/** The style sheet of all widgets, with the font of their icons. widgets.mjs builds it. */
declare module 'style' {
  const text: string
  export default text
}

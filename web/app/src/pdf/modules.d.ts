declare module 'pdfjs-dist/legacy/build/pdf.worker.mjs'
declare module '*.wasm' {
  const data: Uint8Array
  export default data
}

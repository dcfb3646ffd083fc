const paths = {
  add: 'M8 3v10M3 8h10',
  back: 'M10 3 5 8l5 5',
  check: 'm3 8.5 3.5 3.5L13 4.5',
  close: 'm4 4 8 8M12 4l-8 8',
  code: 'm5.5 4.5-3.5 3.5 3.5 3.5M10.5 4.5l3.5 3.5-3.5 3.5',
  copy: 'M6 6h7v7H6zM10 6V3H3v7h3',
  down: 'M8 3v10m-4-4 4 4 4-4',
  download: 'M8 2v8m-3.5-3.5L8 10l3.5-3.5M3 13h10',
  edit: 'm3 13 .7-3L10.500 3.200l2.300 2.300L6 12.300z',
  file: 'M4 2h5l3 3v9H4zM9 2v3h3',
  folder: 'M2 4.500V12.500h12v-7H8L6.500 4z',
  fork: 'M4.500 5v6M4.500 8h4a3 3 0 0 0 3-3M4.500 5a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3zM4.500 14a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3zM11.500 5a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3z',
  home: 'M2.500 7.500 8 3l5.500 4.500M4 6.500V13h8V6.500',
  info: 'M8 7.500v4M8 4.800v.1M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12z',
  list: 'M6 4h7.500M6 8h7.500M6 12h7.500M2.800 4v.01M2.800 8v.01M2.800 12v.01',
  menu: 'M2.500 4.500h11M2.500 8h11M2.500 11.500h11',
  moon: 'M13 9.500A5.500 5.500 0 0 1 6.500 3 5.500 5.500 0 1 0 13 9.500z',
  more: 'M3.500 8v.01M8 8v.01M12.500 8v.01',
  notebook: 'M4 2h9v12H4zM2.500 5h2M2.500 8h2M2.500 11h2M7 5.500h3.500',
  pause: 'M5.500 3.500v9M10.500 3.500v9',
  play: 'M5 3.200v9.600L12.500 8z',
  queue: 'M8 4v4l2.500 2M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12z',
  restart: 'M13 8a5 5 0 1 1-1.500-3.500L13 6M13 2.500V6H9.500',
  search: 'M7 11.500a4.500 4.500 0 1 0 0-9 4.500 4.500 0 0 0 0 9zM10.500 10.500l3 3',
  signout: 'M6 3H3v10h3M7 8h6.500M11 5.500 13.500 8 11 10.500',
  spinner: 'M8 2a6 6 0 0 1 6 6',
  stop: 'M4.500 4.500h7v7h-7z',
  sun: 'M8 10.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5zM8 1.500v1.500M8 13v1.500M1.500 8H3M13 8h1.500M3.400 3.400l1 1M11.600 11.600l1 1M3.400 12.600l1-1M11.600 4.400l1-1',
  terminal: 'm3 5 3 3-3 3M8 11.500h5',
  trash: 'M3 4.500h10M6.500 4.500v-2h3v2M4.500 4.500l.5 9h6l.5-9M7 7v4M9 7v4',
  up: 'M8 13V3M4 7l4-4 4 4',
  upload: 'M8 10V2M4.500 5.500 8 2l3.500 3.500M3 13h10',
  variable: 'M5 3C3.500 3 3.500 5 3.500 6S3 8 2.500 8c.5 0 1 1 1 2s0 3 1.500 3M11 3c1.500 0 1.500 2 1.500 3s.5 2 1 2c-.5 0-1 1-1 2s0 3-1.500 3M6.500 6.500l3 3M9.500 6.500l-3 3',
  warning: 'M8 2.500 14 13H2zM8 6.500v3M8 11.300v.1',
} as const

export type IconName = keyof typeof paths

/** A drawing of 16 px beside words, or inside a button that has a label. */
export function Icon({ name, spin }: { name: IconName; spin?: boolean }) {
  return <svg class={spin ? 'icon-svg spin' : 'icon-svg'} viewBox="0 0 16 16" aria-hidden="true"><path d={paths[name]} /></svg>
}

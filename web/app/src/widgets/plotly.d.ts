declare module 'jupyterlab-plotly/lib/Figure' {
  export const FigureModel: object
  export const FigureView: object
}

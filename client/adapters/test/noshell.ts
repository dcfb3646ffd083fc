// The names of just-bash that bash-tool imports for its own shell.
export class BashTransformPipeline {}
export class TeePlugin {}

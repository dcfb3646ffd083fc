package config

// LibreChat configures the API for LibreChat, and the tokens with which it states its users.
type LibreChat struct {
	Template  string   `yaml:"template" doc:"Template of the sandboxes in which programs of LibreChat run, for more packages or languages. Each tenant that uses it needs a template with this name. Empty means the server's own image."`
	Timeout   Duration `yaml:"timeout" default:"2m" min:"1s" max:"1h" doc:"How long a program of LibreChat may run, 1s to 1h. A request can ask for less."`
	Retention Duration `yaml:"retention" default:"24h" min:"1m" max:"720h" doc:"How long files of LibreChat are kept after they were written, and how long a stateful session without work; 1m to 720h, and at most sessions.idle_delete. LibreChat uploads a file again after 23 h."`
	Runs      int      `yaml:"runs_per_30s" default:"20" min:"0" doc:"Programs that one user of LibreChat may start in 30 s, at each gateway. Further ones are refused with 429. 0 means no limit."`
	Keys      string   `yaml:"jwt_keys" doc:"File with the public keys of LibreChat's tokens: PEM blocks PUBLIC KEY, or a JSON Web Key Set; Ed25519, or RSA with at least 2048 bits. Empty: the server accepts no such tokens, and LibreChat needs a key."`
	KeyID     string   `yaml:"jwt_key_id" default:"lc-codeapi-2026-05" doc:"Id of the keys in a PEM file, which tokens must name. Empty accepts every id."`
	Issuer    string   `yaml:"jwt_issuer" default:"librechat" doc:"Issuer that tokens must name."`
	Audience  string   `yaml:"jwt_audience" default:"codeapi" doc:"Audience that tokens must name."`
	Tenant    string   `yaml:"jwt_tenant" default:"librechat" doc:"Tenant of this server that the users of tokens belong to. Its quotas count for all of them together. Users see nothing of each other."`
}

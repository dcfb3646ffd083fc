package config

import "net/netip"

// Onlyboxes configures the API for LobeHub, and the tokens with which it states its users.
type Onlyboxes struct {
	KeyFile  string   `yaml:"jit_key_file" doc:"File with the key with which LobeHub signs its tokens, ONLYBOXES_JIT_SIGNING_KEY there, at least 16 bytes; mode 0600. Empty: the server accepts no such tokens, and clients need a key."`
	Issuers  []string `yaml:"jit_issuers" doc:"Issuers that tokens may name: the address of LobeHub, or its ONLYBOXES_JIT_ISSUER. Empty means all."`
	Tenant   string   `yaml:"jit_tenant" default:"lobehub" doc:"Tenant of this server that the users of tokens belong to. Its quotas count for all of them together. Users see nothing of each other."`
	Hosts    []string `yaml:"export_hosts" doc:"Hosts of object stores to which files may be sent, as in egress.allow, such as s3.example.org. The gateway connects to them. Empty: files cannot be exported."`
	Networks []string `yaml:"export_networks" doc:"Networks that are not public and that these hosts may be in, such as 10.1.2.0/24. Without this, files are sent to public addresses alone."`
}

// ExportNetworks returns the private networks of object stores.
func (c *Config) ExportNetworks() ([]netip.Prefix, error) {
	return networks("onlyboxes.export_networks", c.Onlyboxes.Networks)
}

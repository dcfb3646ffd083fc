package config

import (
	"slices"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// OIDC configures the sign-in of browser users through an OpenID Connect provider.
type OIDC struct {
	Issuer      string   `yaml:"issuer" doc:"Address of an OpenID Connect provider, such as https://id.example.com, that users of browsers sign in at. Empty means that there is none."`
	ClientID    string   `yaml:"client_id" doc:"Client id of this server at the provider."`
	SecretFile  string   `yaml:"client_secret_file" doc:"File with the secret that goes with it, mode 0600. Empty for a public client."`
	PublicURL   string   `yaml:"public_url" doc:"Address of this server as browsers have it, such as https://sandgate.example.com; its host must be in allowed_hosts. The provider sends users back to /auth/callback below it. http is for localhost alone."`
	Scopes      []string `yaml:"scopes" default:"openid,profile,email" doc:"Scopes that the provider is asked for."`
	TenantClaim string   `yaml:"tenant_claim" doc:"Claim of the provider that names a user's tenant. A user without the claim is refused. Empty means that all users belong to tenant."`
	Tenant      string   `yaml:"tenant" default:"users" doc:"Tenant of all users when there is no tenant_claim."`
	RoleClaim   string   `yaml:"role_claim" doc:"Claim of the provider, a text or a list such as groups, in which a user's role stands: admin, owner, driver, viewer or run. The most powerful counts."`
	Role        string   `yaml:"role" doc:"Role of users who have none in role_claim. Empty means that they are refused."`
	Audience    string   `yaml:"audience" doc:"Audience of the access tokens with which hosts of MCP act for users. Empty means public_url with /mcp. It cannot be client_id."`
	Session     Duration `yaml:"session" default:"8h" doc:"How long a sign-in lasts; 1s to 24h. Changes of the user at the provider take effect after that."`
}

// Complete returns an error if only some of the settings that belong together are set.
func (o *OIDC) Complete() error {
	const op = "config.oidc"
	switch {
	case o.Issuer == "":
		return nil
	case o.ClientID == "":
		return fault.Invalid(op, "oidc.client_id", "is needed with oidc.issuer")
	case o.PublicURL == "":
		return fault.Invalid(op, "oidc.public_url", "is needed with oidc.issuer")
	case o.Audience == o.ClientID:
		return fault.Invalid(op, "oidc.audience", "cannot be the client id")
	case o.Role == "" && o.RoleClaim == "":
		return fault.Invalid(op, "oidc.role", "this or oidc.role_claim is needed with oidc.issuer")
	case o.Role != "" && !slices.Contains([]string{"admin", "owner", "driver", "viewer", "run"},
		o.Role):
		return fault.Invalid(op, "oidc.role", "%q is not one of admin, owner, driver, viewer, run",
			o.Role)
	}
	return nil
}

func (o *OIDC) validate(op string) error {
	if o.Session < Duration(time.Second) || o.Session > Duration(24*time.Hour) {
		return fault.Invalid(op, "oidc.session", "must be 1s to 24h")
	}
	return nil
}

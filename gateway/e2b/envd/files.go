package envd

import "net/http"

// mountFiles adds the routes of the contents of files.
func mountFiles(*http.ServeMux, Config) {}

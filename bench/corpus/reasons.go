package main

import "regexp"

// reasons returns the causes of failures that are known, by corpus.
func reasons() map[string][]reason {
	return map[string][]reason{
		"go": goReasons(), "java": javaReasons(), "jdk": jdkReasons(), "jshell": jshellReasons(),
		"node": nodeReasons(), "php": phpReasons(), "python": pythonReasons(),
	}
}

// because makes a reason; an empty pattern matches all.
func because(name, code, why string) reason {
	r := reason{name: name}
	if code != "" {
		r.code = regexp.MustCompile(code)
	}
	if why != "" {
		r.why = regexp.MustCompile(why)
	}
	return r
}

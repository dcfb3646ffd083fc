package main

// reasons returns the causes of failures that are known, by corpus.
func reasons() map[string][]reason {
	return map[string][]reason{}
}

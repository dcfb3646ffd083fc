package client

// Delivered is how many bytes of a channel's output the sink has taken so far.
// Together with Adopt it carries a channel over a checkpoint.
func (c *Client) Delivered(ch uint32) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.flows[ch]; w != nil {
		return w.got
	}
	return 0
}

// Attach registers a channel that runs already, because it was started before
// the sandbox was checkpointed; its output is dropped until then. taken is
// what the client of that time had taken of it, from Taken. Nothing is sent.
func (c *Client) Attach(ch uint32, taken uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flows[ch] == nil {
		c.flows[ch] = &flow{got: taken, told: taken}
	}
}

package cluster

// MaxConsumptions is the maximum number of quotas in one settlement.
const MaxConsumptions = 256

// Consumption is the number of requests that a gateway has admitted of one quota since
// its last settlement.
type Consumption struct {
	// Name is the name of the quota.
	Name string
	// Rate is the quota in requests per second, Burst the size of its bucket.
	Rate, Burst float64
	Requests    int
}

package volume

// DiskUse returns the bytes of a tenant's volumes at their last measurements, and the part of the
// volumes that a subject has created.
func (v *Store) DiskUse(tenant, subject string) (all, own int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, one := range v.all {
		if one.Tenant != tenant {
			continue
		}
		all += one.used.bytes
		if one.Subject == subject {
			own += one.used.bytes
		}
	}
	return all, own
}

// Holders returns the tenants and subjects of all volumes.
func (v *Store) Holders() (all [][2]string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, one := range v.all {
		all = append(all, [2]string{one.Tenant, one.Subject})
	}
	return all
}

// stale returns a volume that no running session can write to, and that was not measured since one
// could; nil if there is none. seen are the volumes that sessions can write to.
func (v *Store) stale(seen map[*volume]bool) *volume {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, one := range v.all {
		if one.stale && !seen[one] {
			one.stale = false
			return one
		}
	}
	return nil
}

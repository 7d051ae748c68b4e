package pgxread

// Check returns the faults of c for which Open would refuse it, joined, and opens nothing: for
// a configuration that is read while another one is in use. What Configure does is not seen. No error
// holds a DSN. The environment variables that PostgreSQL's clients know are read, as Open reads them.
func (c *Config) Check() error {
	db := &DB{cfg: *c}
	db.cfg.withDefaults()
	_, err := db.plans()
	return err
}

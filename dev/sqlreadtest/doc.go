// Package sqlreadtest tests package sqlread with real drivers against real servers: the module of
// sqlread requires no driver.
package sqlreadtest

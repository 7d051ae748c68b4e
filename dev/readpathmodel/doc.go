// Package readpathmodel runs package readpath through random sequences of losses and recoveries of the
// replicas, reads of every class, changes of the budget and steps of time, and holds it to what must be true of
// each (REQ-D3, REQ-D4, REQ-D5, REQ-D6, REQ-D8).
package readpathmodel

// Package rehearse plays scenarios on a real control plane, without and with Segue, and measures what they do to the
// services in them.
//
// A run goes: a control plane (fresh or shared), a namespace, in mode segue the operator, played pods and a load
// balancer, a recorder on everything that can be watched, then the scenario's steps. What was seen is turned into a
// view.Rehearsal by code that does no I/O, and judged there.
//
// Nothing is estimated: requests are really sent, evictions and their answers are read from the API server's audit log,
// and a run that proves nothing (no load, no disruption, a component that died) never passes.
package rehearse

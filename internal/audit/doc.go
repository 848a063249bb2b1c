// Package audit finds in Kubernetes manifests what the next node disruption will do to them, and which settings are written
// down but not in force. It is pure: text comes in as bytes, findings go out as data. It must never read a file or a cluster,
// hold a client, or look at a clock; whoever calls it does that.
//
// Text is cut into documents (Split), each is read alone so that a broken one does not hide the others (Read), the objects
// become an Inventory in which budgets, services and autoscalers know what they select, and each Rule is a function over it.
package audit

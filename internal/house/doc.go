// Package house keeps the structure of the repository as ARCHITECTURE.md describes it. It has no code,
// only tests: which packages may import which, which modules a module may need, and what must not be in
// the tree. Nothing may import it, and its tests must not need a network or a cluster.
package house

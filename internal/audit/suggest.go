package audit

import (
	"maps"
	"slices"
	"strings"

	"github.com/segue-dev/segue/internal/audit/schemas"
)

// placeFor returns the path at which an unknown field most likely belongs, or "".
func (w *walk) placeFor(s *schemas.Schema, path, key string, v any) string {
	if name := w.similar(s, key, v); name != "" {
		return join(path, name)
	}
	search := search{walk: w, value: v, from: steps(path)}
	for _, c := range w.namesakes(key) {
		search.try(c)
	}
	return search.best
}

// similar returns a field of the same object whose name is a slip of the pen away and that takes the value.
func (w *walk) similar(s *schemas.Schema, key string, v any) string {
	best, least := "", 3
	if len(key) < 6 {
		least = 2
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := w.set.Resolve(s.Properties[name])
		if property == nil || !fits(v, property.Type) {
			continue
		}
		d := distance(strings.ToLower(name), strings.ToLower(key))
		if d < least {
			best, least = name, d
		}
	}
	if best != "" {
		return best
	}
	longest := max(7, len(key)*2/3) // as minReplicas for minReplicaCount
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := w.set.Resolve(s.Properties[name])
		if n := sharedPrefix(name, key); n > longest && property != nil && fits(v, property.Type) {
			best, longest = name, n
		}
	}
	return best
}

func sharedPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// namesake is a field of a kind; lists on the way to it are entered at [0].
type namesake struct {
	path   []string
	lists  []int // which steps of the path are an index
	schema *schemas.Schema
}

// namesakes returns the fields of that name, all over the kind. The fields of a kind are looked up once.
func (w *walk) namesakes(key string) []namesake {
	index, ok := w.fields[w.root]
	if !ok {
		index = map[string][]namesake{}
		w.collect(index, w.root, namesake{}, 0)
		w.fields[w.root] = index
	}
	return index[strings.ToLower(key)]
}

func (w *walk) collect(index map[string][]namesake, schema *schemas.Schema, at namesake, depth int) {
	schema = w.set.Resolve(schema)
	if schema == nil || depth > 9 || len(at.path) == 1 && at.path[0] == "status" {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		here := namesake{path: append(slices.Clone(at.path), name), lists: at.lists, schema: w.set.Resolve(schema.Properties[name])}
		if here.schema != nil {
			index[strings.ToLower(name)] = append(index[strings.ToLower(name)], here)
			w.collect(index, here.schema, here, depth+1)
		}
	}
	if schema.Items != nil {
		here := namesake{path: append(slices.Clone(at.path), "0"), lists: append(slices.Clone(at.lists), len(at.path))}
		w.collect(index, schema.Items, here, depth+1)
	}
}

// search chooses among the fields of one name the one that an unknown field most likely means.
type search struct {
	walk  *walk
	value any
	from  []string
	best  string
	score int
}

// try offers a field when it would take the value; a list that the unknown field stands in is entered at the same index.
func (s *search) try(c namesake) {
	if c.path[0] == "metadata" && len(s.from) > 0 && s.from[0] != "metadata" || !fits(s.value, c.schema.Type) || !s.keeps(c.schema) {
		return
	}
	path := slices.Clone(c.path)
	for _, at := range c.lists {
		if at < len(s.from) && slices.Equal(path[:at], s.from[:at]) {
			path[at] = s.from[at]
		}
	}
	at := ""
	for i, step := range path {
		if slices.Contains(c.lists, i) {
			at += "[" + step + "]"
		} else {
			at = join(at, step)
		}
	}
	s.offer(at)
}

// keeps says whether a field would keep the first level of a value that is a map: a namesake of other shape is not meant.
func (s *search) keeps(property *schemas.Schema) bool {
	m, ok := s.value.(map[string]any)
	if !ok || property.Open || property.Values != nil {
		return true
	}
	for key := range m {
		if property.Properties[key] == nil {
			return false
		}
	}
	return true
}

// offer keeps the path that is nearest: the fewest steps up from where the field stands and down again. Aside, that is up and then
// down, it must lead to something that is written: a namesake below another kind of volume is not meant.
func (s *search) offer(at string) {
	own := steps(at)
	shared := 0
	for shared < len(own)-1 && shared < len(s.from) && own[shared] == s.from[shared] {
		shared++
	}
	up, down := len(s.from)-shared, len(own)-1-shared
	if up > 0 && down > 0 && !s.walk.has(own[:len(own)-1]) {
		return
	}
	score := up + down
	if s.best == "" || score < s.score {
		s.best, s.score = at, score
	}
}

// distance is the number of letters to insert, remove, change or swap (neighbours) to get from a to b.
func distance(a, b string) int {
	before, previous := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current := make([]int, len(b)+1)
		current[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			current[j] = min(previous[j]+1, current[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous = previous, current
	}
	return previous[len(b)]
}

// Package charts embeds what an installation of Segue needs in a cluster, so that the lab installs exactly the rights and
// kinds that users install.
package charts

import "embed"

// Files holds segue/crds and segue/files.
//
//go:embed segue/crds/*.yaml segue/files/*.yaml
var Files embed.FS

// Command segue makes node autoscaling safe for what runs on the nodes.
package main

import (
	"os"

	"github.com/segue-dev/segue/internal/cli"
)

func main() { os.Exit(cli.Main()) }

// Command pause holds the namespaces of a pod until the pod ends.
package main

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

func main() {
	done := make(chan os.Signal, 1)
	signal.Notify(done, unix.SIGTERM, unix.SIGINT)
	<-done
}

// The program of a pod's sandbox: it waits.
module fairlead.dev/controlplane/pause

go 1.26.0

require golang.org/x/sys v0.46.0

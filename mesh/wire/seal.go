package wire

// Contexts under which parties seal documents for each other: one sealed as a body
// never opens as a manifest.
const (
	SealBody     = "idlemesh/body"
	SealManifest = "idlemesh/manifest"
	SealCause    = "idlemesh/cause" // an Error: why a job ended badly
)

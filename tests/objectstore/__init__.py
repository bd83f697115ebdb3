"""An object store at a distance: what each verb asks of it, and what it does when the store fails."""

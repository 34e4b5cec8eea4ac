export function load(text: string, options?: object): unknown;
export function dump(value: unknown, options?: object): string;
